"""An application as the shadow of another one."""
