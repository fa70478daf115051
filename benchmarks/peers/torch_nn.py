"""PyTorch's networks, forward and backward. Runs in `.venv-peers`; spoken to through `peer.py`.

LSTM and GRU: 128 steps of 64 sequences, from 64 numbers to 128. Transformer: 256 sets of 30 entities, 128 wide, 4 heads, 2 layers, norms
first. The loss is the mean square of all features, its gradient goes to the weights and to the inputs.
"""

import protocol  # noqa: I001  # before the libraries: it keeps their chatter off stdout

import argparse
import os
import sys

os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # else its second thread spins: many times slower on busy cores

import torch  # pyright: ignore[reportMissingImports]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--net", choices=("lstm", "gru", "transformer"), default="transformer")
    parser.add_argument("--passes", type=int, default=5, help="for each `go`")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    if args.net == "transformer":
        layer = torch.nn.TransformerEncoderLayer(128, 4, 512, dropout=0.0, norm_first=True, batch_first=True)
        model = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        xs = torch.randn(256, 30, 128, requires_grad=True)
    else:
        model = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU}[args.net](64, 128)
        xs = torch.randn(128, 64, 64, requires_grad=True)  # time first

    def work() -> int:
        for _ in range(args.passes):
            model.zero_grad(set_to_none=True)
            xs.grad = None
            features = model(xs) if args.net == "transformer" else model(xs)[0]
            features.square().mean().backward()
        return args.passes

    protocol.serve(work)
    return 0


if __name__ == "__main__":
    sys.exit(main())
