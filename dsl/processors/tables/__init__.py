"""The operators of tables, with what they share: changes, stores, and views of tables without a store."""
