from .errors import BundleError as BundleError, ExportError as ExportError
from .exporting import export as export
from .policy import RUNTIMES as RUNTIMES, Policy as Policy, load as load
from .server import Server as Server, serve as serve
from .web import write_page as write_page

__all__ = ["RUNTIMES", "BundleError", "ExportError", "Policy", "Server", "export", "load", "serve", "write_page"]
