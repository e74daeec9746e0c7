"""Cancels a wait over each transport, and uses a server that does not answer.

Arguments: URL of a server whose job `slow` does not end, program, URL of no server.
"""

import asyncio
import os
import sys

import anyio
from mcp import Client
from mcp.client.stdio import StdioServerParameters

SERVER, PROGRAM, NOWHERE = sys.argv[1:]


def stdio(*arguments):
    return StdioServerParameters(command=PROGRAM, args=["mcp", *arguments], env=dict(os.environ))


async def cancelled(target, mode):
    async with Client(target, mode=mode) as client:
        started = anyio.Event()

        async def progress(done, total, message):
            started.set()

        async with anyio.create_task_group() as group:

            async def wait():
                await client.call_tool("wait_for_job", {"job": "slow", "timeout_secs": 600}, progress_callback=progress)
                raise AssertionError("the job has ended")

            group.start_soon(wait)
            await started.wait()
            group.cancel_scope.cancel()
        result = await client.call_tool("get_job", {"job": "slow"})
        assert result.structured_content["state"] == "RUNNING", result


async def main():
    for mode in ("auto", "legacy"):
        await cancelled(f"{SERVER}/mcp", mode)
        await cancelled(stdio("--server", SERVER), mode)
    async with Client(stdio("--server", NOWHERE)) as client:
        assert len((await client.list_tools()).tools) > 20
        result = await client.call_tool("list_jobs", {})
        error = result.structured_content["error"]
        assert result.is_error and error["retryable"] and error["code"] == "UNAVAILABLE", error
        assert NOWHERE in error["message"], error
    async with Client(stdio("--server", SERVER, "--read-only")) as client:
        tools = (await client.list_tools()).tools
        assert tools and all(tool.annotations.read_only_hint for tool in tools)
        assert [prompt.name for prompt in (await client.list_prompts()).prompts] == [
            "explain_job", "compare_jobs", "diagnose_job"]
        assert (await client.call_tool("list_jobs", {})).structured_content["jobs"][0]["job"] == "slow"
        try:
            await client.call_tool("cancel_job", {"job": "slow"})
            raise AssertionError("a read-only server has cancelled a job")
        except Exception as error:
            assert "this server is read-only" in str(error), error


asyncio.run(main())
print("ok")
