"""AG-UI: conversations with agents as the open protocol for front ends has them."""
