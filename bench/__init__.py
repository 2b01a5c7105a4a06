"""Benchmarks. Figures are ratios against the real thing in the same run; nothing here is a test."""
