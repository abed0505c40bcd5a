"""What tools/python/generate is made of: classes of answers, and functions of commands."""
