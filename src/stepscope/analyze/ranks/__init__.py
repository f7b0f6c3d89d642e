"""All ranks of a job at once: which rank waits for which, since when, and why."""
