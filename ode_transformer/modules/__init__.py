"""What a layer is made of. Shapes: T time, B batch, C channels; states are (T, B, C), as fairseq has them."""
