#!/usr/bin/env python3
"""Prints the builds of projects as they end, also those that ended while it was not running."""

import argparse
import asyncio
import os
import pathlib

import encke
import httpx


async def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("developer")
    parser.add_argument("projects", nargs="+")
    parser.add_argument("--backend", default=os.environ.get("BACKEND", "http://localhost:3000"))
    parser.add_argument("--cursor-file", type=pathlib.Path, default=pathlib.Path("builds.cursor"))
    arguments = parser.parse_args()

    async with httpx.AsyncClient(base_url=arguments.backend) as backend:

        async def watch():
            wanted = {"developer": arguments.developer, "projects": arguments.projects}
            return (await backend.post("/watch", json=wanted)).raise_for_status().json()

        async def ticket():
            return (await watch())["ticket"]

        where = arguments.cursor_file
        begun = await watch()
        if not where.exists():
            where.write_text(begun["cursor"])
        async for message in encke.listen_async(begun["encke"], ticket=ticket, cursor=where.read_text()):
            match message:
                case encke.Event(id, subject, _, build):
                    project = subject.removeprefix("build:")
                    print(f"{project} {build['number']}: {build['status']}", flush=True)
                    where.write_text(id)
                case encke.Reset() | encke.Gap():
                    print("builds may be missing: look at the list of builds", flush=True)


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except KeyboardInterrupt:
        pass
