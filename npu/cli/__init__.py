"""The command line: `main` reads the arguments, `commands` and `tool_commands` do what they ask."""
