"""Benchmarks that compare two things side by side in one run. They report ratios and judge nothing.

python -m tests.benchmarks                  all that need no browser, in one table
python -m tests.benchmarks.training         one of them
"""
