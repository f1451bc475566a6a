"""The broker process around the core: asyncio, files, clocks, threads, and the waist that every door calls."""
