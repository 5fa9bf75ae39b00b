"""The `questloop` command line: one module per group of commands, options declared once in `options`."""
