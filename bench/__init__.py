"""Speed and memory of a real broker process, each figure beside what it is compared with. Never a test."""
