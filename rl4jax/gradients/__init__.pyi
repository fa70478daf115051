from . import safe as safe
from .asserting import assert_flow as assert_flow, assert_step_changes as assert_step_changes
from .clip import clip_by_global_norm as clip_by_global_norm
from .examination import report as report
from .findings import Cause as Cause, Gradient as Gradient, Report as Report
from .finite import all_finite as all_finite, keep_if as keep_if
