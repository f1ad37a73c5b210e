"""The dashboard: a run on a live map with charts, while it goes on or when it is over.

    source  where frames come from: `live` (a publication) or `finished` (a run folder)
    history running time series of a live run; `figures` lists them
    message one frame on its way to the browser: a JSON header and raw columns
    app     the HTTP and WebSocket server; `guard` keeps strangers out; `serve` runs it

A browser asks for a frame when it has drawn the last one, and gets the newest available: a slow
browser sees fewer frames and delays no other client. Everything that the page needs is served from here.
"""
