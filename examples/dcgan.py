"""A generative adversarial network that generates digits.

    python examples/dcgan.py [--epochs 60] [--quick]

Radford, Metz, Chintala 2016, at 16 x 16 pixels: the generator turns noise into images by transposed
convolutions, the discriminator learns to distinguish them from real ones. The picture shows
generated digits. After the full run their standard deviation is 0.95 of that of real digits.
"""

from __future__ import annotations

import training
from pictures import panels, show

import shmtensor as st
from shmtensor import nn, optim
from shmtensor.dataloaders import digits
from shmtensor.nn import functional as F

NOISE = 32


def make_model(width: int = 32) -> tuple[nn.Module, nn.Module]:
    """The generator, (N, NOISE, 1, 1) to images; the discriminator, images to logits."""
    generator = nn.Sequential(
        nn.ConvTranspose2d(NOISE, 4 * width, 4, bias=False), nn.BatchNorm2d(4 * width), nn.ReLU(),
        nn.ConvTranspose2d(4 * width, 2 * width, 4, 2, 1, bias=False), nn.BatchNorm2d(2 * width),
        nn.ReLU(), nn.ConvTranspose2d(2 * width, 1, 4, 2, 1), nn.Sigmoid(),
    )  # fmt: skip
    discriminator = nn.Sequential(
        nn.Conv2d(1, 2 * width, 4, 2, 1), nn.LeakyReLU(0.2),
        nn.Conv2d(2 * width, 4 * width, 4, 2, 1, bias=False), nn.BatchNorm2d(4 * width),
        nn.LeakyReLU(0.2), nn.Conv2d(4 * width, 1, 4), nn.Flatten(0),
    )  # fmt: skip
    for network in (generator, discriminator):
        for module in network.modules():
            if isinstance(module, (nn.Conv2d, nn.ConvTranspose2d)):
                nn.init.normal_(module.weight, 0, 0.02)
    return generator, discriminator


def make_optimizer(model):
    return tuple(optim.Adam(m.parameters(), lr=5e-4, betas=(0.5, 0.999)) for m in model)


def train_step(model, optimizer, images):
    """One update of both from images (N, 1, 16, 16). Returns the losses of both."""
    (generator, discriminator), (step_generator, step_discriminator) = model, optimizer
    generated = generator(st.randn(len(images), NOISE, 1, 1, device=images.device))
    step_discriminator.zero_grad()
    real, fake = discriminator(images), discriminator(generated.detach())
    loss = F.binary_cross_entropy_with_logits(real, 0.9 * st.ones_like(real))  # 0.9: smoothed
    loss = loss + F.binary_cross_entropy_with_logits(fake, st.zeros_like(fake))
    loss.backward()
    step_discriminator.step()

    step_generator.zero_grad()
    fooled = discriminator(generated)
    wish = F.binary_cross_entropy_with_logits(fooled, st.ones_like(fooled))
    wish.backward()
    step_generator.step()
    return wish.detach(), loss.detach()


def main() -> None:
    options = training.options(__doc__, 60, 8, "dcgan.png", "epoch")
    st.manual_seed(0)
    images = digits(train=True, image=True).tensors[0].to(options.device)
    images = F.interpolate(images, size=16, mode="bilinear")
    model = tuple(m.to(options.device) for m in make_model(8 if options.quick else 32))
    optimizer = make_optimizer(model)

    def epoch(_: int):
        for batch in st.randperm(len(images)).to(options.device).split(64):
            _, loss = train_step(model, optimizer, images[batch])
        return loss

    losses = training.run(options.steps, epoch, "epoch")
    with st.no_grad():
        generated = model[0].eval()(st.randn(64, NOISE, 1, 1, device=options.device))
    # These are near 0 if the generator copies real images, or always makes the same image.
    distance = st.cdist(generated.flatten(1), images.flatten(1)).min(1).values.mean().item()
    std_ratio = generated.flatten(1).std(0).mean().item() / images.flatten(1).std(0).mean().item()
    print(f"discriminator's loss                {losses[-1]:.3f} (1.386: chance)")
    print(f"distance to the nearest real digit  {distance:.2f}")
    print(f"standard deviation, over real ones  {std_ratio:.2f}")
    with panels(options.out, size=6) as (panel,):
        framed = F.pad(generated, (1, 1, 1, 1)).reshape(8, 8, 18, 18)
        show(panel, framed.permute(0, 2, 1, 3).reshape(144, 144), "generated")
    print(f"generated digits                    {options.out}")


if __name__ == "__main__":
    main()
