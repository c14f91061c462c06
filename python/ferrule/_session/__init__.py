"""One client's life with one server: negotiate, ask, retry, page, close.

Written once as coroutines over an `IO`; knows no socket, thread, task or clock.
"""
