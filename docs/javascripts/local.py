"""A hook of mkdocs: pages load nothing from the network, so that their search works from a folder too."""

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.pages import Page

SHIM = "https://unpkg.com/iframe-worker/shim"


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:  # noqa: ARG001 - mkdocs passes them by name
    """The page with a worker of this site in place of the one that the plugin `offline` names."""
    return output.replace(SHIM, "../" * page.url.count("/") + "javascripts/worker.js")
