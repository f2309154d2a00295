"""What a walk over past sessions comes to, in numbers alone: sessions, books, benchmarks, hit rates, one sentence."""
