"""The parts of encoders and decoders. Shapes: T positions, B sentences, C width; states are (T, B, C) as in fairseq."""
