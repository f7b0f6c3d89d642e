"""All ranks of a job at once: who waits for whom, since when and because of what."""
