"""Mode switch, plan schema, executor and path finding."""
