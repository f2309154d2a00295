"""Research tools: what is known of a company beside its prices, each with its source and publication time."""
