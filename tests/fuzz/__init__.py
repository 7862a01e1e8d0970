"""Generated programs, run plainly and in evalframe's evaluator, and compared."""
