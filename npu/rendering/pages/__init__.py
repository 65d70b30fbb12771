"""Pages that need nothing else: no request leaves them, tables sort and filter, readable on a telephone, light and dark."""
