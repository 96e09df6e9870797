"""Formats of data files: arrays, tables, images; whole or row by row."""
