"""`python -m rextio_torch.cli`, the same as `rextio-torch`."""

from rextio_torch.cli import main

if __name__ == "__main__":
    main()
