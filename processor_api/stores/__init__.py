"""Stores as users see them: contracts, suppliers, builders.

``contracts`` says what a processor may do with a store, ``factory`` has :class:`~processor_api.stores.factory.Stores`,
``custom`` says what a store of one's own has to do. Nothing here stores anything: that is the package ``state``.
Anybody may import it. Start with :mod:`processor_api.stores.contracts`.
"""
