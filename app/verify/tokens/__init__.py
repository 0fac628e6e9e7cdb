"""Certificate: drafted answers compared with plain ones token by token."""
