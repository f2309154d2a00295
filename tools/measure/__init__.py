"""Backtests, experiments, public benchmarks, masks and cassettes: what measures the desk."""
