"""Uses of trained models: translation of raw text, bundles, and exports to CTranslate2 and ONNX."""
