"""The shell: asyncio, files, clocks and threads around the core, and the waist that every door calls."""
