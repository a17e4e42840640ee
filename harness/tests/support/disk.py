"""A disk that fails, below a real file system."""

import os
import subprocess


class FailingDisk:
    """An ext4 in a file whose own file system may be full: then the kernel cannot write pages that it has accepted, each
    sync of them fails, and they count as clean afterwards. `OSError` if this machine does not allow it."""

    def __init__(self, directory):
        self.path, self._below = directory / "failing", directory / "below"
        self._image, self._filler = self._below / "image", self._below / "filler"
        self.path.mkdir()
        self._below.mkdir()
        self._run("mount", "-t", "tmpfs", "-o", "size=48m", "encke-test", self._below)
        try:
            with open(self._image, "wb") as image:
                image.truncate(160 << 20)
            self._run("mkfs.ext4", "-q", "-b", "4096", "-J", "size=4", "-N", "1024", "-E", "nodiscard", self._image)
            # What the file system says of itself, and its journal, can always be written.
            for start, length in ((0, 2 << 20), (64 << 20, 6 << 20)):
                self._allocate(start, length)
            self._mount()
        except OSError:
            self._run("umount", "--lazy", self._below)
            raise

    @staticmethod
    def _run(*command):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise OSError(done.stderr)

    def _allocate(self, start, length):
        with open(self._image, "r+b") as image:
            image.seek(start)
            content = image.read(length)
            image.seek(start)
            image.write(content)

    def _mount(self):
        self._run("mount", "-o", "loop,errors=continue", self._image, self.path)

    def fail(self):
        """From now on, what has never been written cannot be."""
        with open(self._filler, "wb", buffering=0) as filler:
            try:
                while True:
                    filler.write(b"x" * (64 << 10))
            except OSError:
                pass

    def heal(self):
        os.unlink(self._filler)

    def read_again(self):
        """Forgets what memory has of the files, as a restart of the machine does."""
        self._run("umount", self.path)
        self._mount()

    def close(self):
        subprocess.run(["umount", "--lazy", self.path], check=True)
        subprocess.run(["umount", "--lazy", self._below], check=True)
