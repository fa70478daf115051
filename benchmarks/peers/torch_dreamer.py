"""A gradient step of DreamerV3 in plain PyTorch: the networks, losses and sizes of `rl4jax_dreamer.py`, for CartPole's observations.

Runs in `.venv-peers`; spoken to through `peer.py`. It says on stderr how many weights there are: as many as in rl4jax.
"""

import protocol  # noqa: I001  # before the libraries: it keeps their chatter off stdout

import argparse
import copy
import os
import sys

os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # else its second thread spins: many times slower on busy cores

import torch  # pyright: ignore[reportMissingImports]
from torch import nn  # pyright: ignore[reportMissingImports]
from torch.nn import functional as F  # pyright: ignore[reportMissingImports]

D_OBS, D_ACTION = 4, 2
BATCH, LENGTH, AHEAD = 16, 64, 15
DISCOUNT, LAM, UNIMIX = 1 - 1 / 333, 0.95, 0.01
SIZES = {  # deter, hidden, units, groups, classes, bins
    "tiny": (256, 64, 64, 32, 4, 63),
    "1m": (512, 64, 64, 32, 4, 255),
}
BLOCKS = 8


def symlog(x):
    return torch.sign(x) * torch.log1p(torch.abs(x))


def dense(d_in, *widths):
    layers = []
    for width in widths:
        layers += [nn.Linear(d_in, width), nn.RMSNorm(width, eps=1e-4), nn.SiLU()]
        d_in = width
    return nn.Sequential(*layers)


def readout(d_in, d_out, units, num_layers):
    return nn.Sequential(dense(d_in, *[units] * num_layers), nn.Linear(units, d_out))


class Blocks(nn.Module):
    def __init__(self, d_in, d_out):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(BLOCKS, d_in // BLOCKS, d_out // BLOCKS) * (BLOCKS / d_in) ** 0.5)
        self.bias = nn.Parameter(torch.zeros(BLOCKS, d_out // BLOCKS))

    def forward(self, x):  # [N, BLOCKS, I]
        return torch.baddbmm(self.bias[:, None], x.transpose(0, 1), self.weight).transpose(0, 1)


class Dreamer(nn.Module):
    def __init__(self, deter, hidden, units, groups, classes, bins):
        super().__init__()
        self.deter, self.groups, self.classes = deter, groups, classes
        stoch = groups * classes
        features = deter + stoch
        self.encoder = dense(D_OBS, units, units, units)
        self.from_deter, self.from_stoch, self.from_action = dense(deter, hidden), dense(stoch, hidden), dense(D_ACTION, hidden)
        self.mix, self.mix_norm = Blocks(deter + BLOCKS * 3 * hidden, deter), nn.RMSNorm(deter, eps=1e-4)
        self.gates = Blocks(deter, 3 * deter)
        self.posterior = readout(deter + units, stoch, hidden, 1)
        self.prior = readout(deter, stoch, hidden, 2)
        self.decoder = readout(features, D_OBS, units, 3)
        self.reward, self.goes_on = readout(features, bins, units, 1), readout(features, 1, units, 1)
        self.policy, self.value = readout(features, D_ACTION, units, 3), readout(features, bins, units, 3)
        grid = torch.linspace(-20, 20, bins)
        self.register_buffer("bins", torch.sign(grid) * torch.expm1(torch.abs(grid)))

    def advance(self, deter, stoch, action):
        inputs = torch.cat([self.from_deter(deter), self.from_stoch(stoch), self.from_action(action)], -1)
        inputs = inputs[:, None].expand(-1, BLOCKS, -1)
        mixed = self.mix(torch.cat([deter.view(len(deter), BLOCKS, -1), inputs], -1)).flatten(1)
        gates = self.gates(F.silu(self.mix_norm(mixed)).view(len(deter), BLOCKS, -1))
        reset, candidate, update = (x.flatten(1) for x in gates.chunk(3, -1))
        update = torch.sigmoid(update - 1)
        return update * torch.tanh(torch.sigmoid(reset) * candidate) + (1 - update) * deter

    def log_probs(self, logits):
        probs = logits.unflatten(-1, (self.groups, self.classes)).softmax(-1)
        return torch.log((1 - UNIMIX) * probs + UNIMIX / self.classes)

    def draw(self, log_probs):
        noise = -torch.log(torch.empty_like(log_probs).exponential_())
        hard = F.one_hot((log_probs + noise).argmax(-1), self.classes).float()
        probs = log_probs.exp()
        return (hard + probs - probs.detach()).flatten(-2)

    def mean(self, logits):
        return (logits.softmax(-1) * self.bins).sum(-1)

    def two_hot_loss(self, logits, target):
        target = target.detach()
        below = (torch.searchsorted(self.bins, target.contiguous(), right=True) - 1).clamp(0, len(self.bins) - 2)
        low, high = self.bins[below], self.bins[below + 1]
        share = ((target - low) / (high - low)).clamp(0, 1)
        log_probs = logits.log_softmax(-1)
        near = torch.gather(log_probs, -1, torch.stack([below, below + 1], -1))
        return -((1 - share) * near[..., 0] + share * near[..., 1])


def lambda_returns(reward, value, discount, trace):
    after, returns = value[-1], []
    for t in reversed(range(len(reward))):
        after = reward[t] + discount[t] * ((1 - trace[t]) * value[t] + trace[t] * after)
        returns.append(after)
    return torch.stack(returns[::-1])


def world_model_loss(model, moments):
    obs, action, reward, is_first, is_terminal, deter, stoch = moments
    tokens = model.encoder(symlog(obs))
    deters, stochs, posteriors = [], [], []
    for t in range(1, LENGTH + 1):
        keep = 1 - is_first[t][:, None]
        deter = model.advance(deter * keep, stoch * keep, action[t - 1] * keep)
        log_probs = model.log_probs(model.posterior(torch.cat([deter, tokens[t]], -1)))
        stoch = model.draw(log_probs)
        deters.append(deter)
        stochs.append(stoch)
        posteriors.append(log_probs)
    deters, stochs, post = torch.stack(deters), torch.stack(stochs), torch.stack(posteriors)
    prior = model.log_probs(model.prior(deters))

    def divergence(p, q):
        return (p.exp() * (p - q)).sum((-2, -1)).clamp(min=1.0)

    kl = divergence(post.detach(), prior) + 0.1 * divergence(post, prior.detach())
    features = torch.cat([deters, stochs], -1)
    reward_loss = model.two_hot_loss(model.reward(features), reward[1:])
    goes_on = F.binary_cross_entropy_with_logits(model.goes_on(features)[..., 0], (1 - is_terminal[1:]) * DISCOUNT, reduction="none")
    painted = (model.decoder(features) - symlog(obs[1:])).square().sum(-1)
    return (kl + reward_loss + goes_on + painted).mean(), deters, stochs


def critic_loss(model, slow_value, logits, features, returns):
    slow = model.mean(slow_value(features.detach()))
    return model.two_hot_loss(logits, returns) + model.two_hot_loss(logits, slow)


def behaviour_loss(model, slow_value, deters, stochs, moments, scale):
    _, _, reward, is_first, is_terminal, _, _ = moments
    with torch.no_grad():
        deter, stoch = deters.flatten(0, 1), stochs.flatten(0, 1)
        latents, actions = [], []
        for t in range(AHEAD + 1):
            latents.append(torch.cat([deter, stoch], -1))
            noise = -torch.log(torch.empty(len(deter), D_ACTION).exponential_())
            actions.append((model.policy(latents[-1]) + noise).argmax(-1))
            if t < AHEAD:
                deter = model.advance(deter, stoch, F.one_hot(actions[-1], D_ACTION).float())
                stoch = model.draw(model.log_probs(model.prior(deter)))
        features, actions = torch.stack(latents), torch.stack(actions)
        rewards = model.mean(model.reward(features))
        goes_on = torch.sigmoid(model.goes_on(features)[..., 0])
        last_value = model.mean(model.value(features[-1]))
        weight = goes_on.cumprod(0)[:-1]
    logits = model.value(features[:-1])
    values = torch.cat([model.mean(logits).detach(), last_value[None]])
    returns = lambda_returns(rewards[1:], values[1:], goes_on[1:], torch.full_like(rewards[1:], LAM))
    low, high = torch.quantile(returns.flatten(), torch.tensor([0.05, 0.95]))
    scale.mul_(0.99).add_(0.01 * (high - low))
    advantage = (returns - values[:-1]) / scale.clamp(min=1.0)
    log_pi = model.policy(features[:-1]).log_softmax(-1)
    log_prob = log_pi.gather(-1, actions[:-1, :, None])[..., 0]
    entropy = -(log_pi.exp() * log_pi).sum(-1)
    policy_loss = -(weight * (log_prob * advantage + 3e-4 * entropy)).mean()
    value_loss = (weight * critic_loss(model, slow_value, logits, features[:-1], returns)).mean()

    real = torch.cat([deters, stochs], -1)[:-1]
    cut_off = torch.cat([is_first[2:], torch.zeros_like(is_first[:1])])
    discount, trace = (1 - is_terminal[1:]) * DISCOUNT, (1 - cut_off) * LAM
    real_returns = lambda_returns(reward[2:], returns[0].view(LENGTH, BATCH)[1:], discount[1:], trace[1:])
    real_loss = ((1 - cut_off[:-1]) * critic_loss(model, slow_value, model.value(real), real, real_returns)).mean()
    return policy_loss + value_loss + 0.3 * real_loss


class LaProp:
    """Clipping by the norms of weights, then LaProp, for all weights in a few calls."""

    def __init__(self, params, lr=4e-5, b1=0.9, b2=0.999):
        self.params, self.lr, self.b1, self.b2, self.count = params, lr, b1, b2, 0
        self.square, self.momentum = ([torch.zeros_like(p) for p in params] for _ in range(2))

    @torch.no_grad()
    def step(self):
        self.count += 1
        grads = [p.grad for p in self.params]
        most = [0.3 * norm.clamp(min=1e-3) for norm in torch._foreach_norm(self.params)]
        shares = [(m / norm.clamp(min=1e-30)).clamp(max=1.0) for m, norm in zip(most, torch._foreach_norm(grads), strict=True)]
        torch._foreach_mul_(grads, shares)
        torch._foreach_mul_(self.square, self.b2)
        torch._foreach_addcmul_(self.square, grads, grads, 1 - self.b2)
        scale = torch._foreach_sqrt(self.square)
        torch._foreach_div_(scale, (1 - self.b2**self.count) ** 0.5)
        torch._foreach_add_(scale, 1e-20)
        torch._foreach_div_(grads, scale)
        torch._foreach_lerp_(self.momentum, grads, 1 - self.b1)
        torch._foreach_add_(self.params, self.momentum, alpha=-self.lr / (1 - self.b1**self.count))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--size", choices=SIZES, default="tiny")
    parser.add_argument("--passes", type=int, default=5, help="gradient steps for each `go`")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    model = Dreamer(*SIZES[args.size])
    slow_value = copy.deepcopy(model.value).requires_grad_(False)
    params = list(model.parameters())
    print(f"{sum(p.numel() for p in params):,} weights", file=sys.stderr)
    opt, scale = LaProp(params), torch.zeros(())
    steps = (1 + LENGTH, BATCH)
    moments = (
        torch.randn(*steps, D_OBS), F.one_hot(torch.randint(D_ACTION, steps), D_ACTION).float(), torch.ones(steps),
        (torch.rand(steps) < 0.05).float(), (torch.rand(steps) < 0.05).float(),
        torch.zeros(BATCH, model.deter), torch.zeros(BATCH, model.groups * model.classes),
    )  # fmt: skip

    def work() -> int:
        for _ in range(args.passes):
            for param in params:
                param.grad = None
            world, deters, stochs = world_model_loss(model, moments)
            (world + behaviour_loss(model, slow_value, deters, stochs, moments, scale)).backward()
            opt.step()
            with torch.no_grad():
                torch._foreach_lerp_(list(slow_value.parameters()), list(model.value.parameters()), 0.02)
        return args.passes

    protocol.serve(work)
    return 0


if __name__ == "__main__":
    sys.exit(main())
