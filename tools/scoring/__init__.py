"""What time makes of forecasts, in numbers alone: points, calibration, errors, consensus, compute."""
