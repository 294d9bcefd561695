"""A static edition: the shipped models' pages for ready examples, as files that need no server."""
