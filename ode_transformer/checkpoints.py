import argparse
import torch
torch.serialization.add_safe_globals([argparse.Namespace])
