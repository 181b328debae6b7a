"""Raw typed models, written by a program."""
