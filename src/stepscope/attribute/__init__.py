"""What each instant of a profile was spent on, and whose code it was."""
