"""How a row is measured: contenders, their servers, warm-up, interleaved runs, and the result of each line."""
