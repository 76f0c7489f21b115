"""The public names, for type checkers and editors. Made from the table in `__init__.py`, by
`python tests/helpers/stub.py`."""

from dojoir import instructions as instructions
from dojoir import kernels as kernels
from dojoir import rules as rules
from dojoir import schedules as schedules
from dojoir import search as search
from dojoir import testing as testing
from dojoir import torch as torch
from dojoir.author import build as build
from dojoir.author.chain import chain as chain
from dojoir.author.function import kernel as kernel
from dojoir.backends.backend import Backend as Backend
from dojoir.backends.host import machine_for as machine_for
from dojoir.backends.machine import Machine as Machine
from dojoir.backends.machine import Rates as Rates
from dojoir.codegen import TARGETS as TARGETS
from dojoir.costs.cost import cost as cost
from dojoir.errors import ArgumentError as ArgumentError
from dojoir.errors import Diagnostic as Diagnostic
from dojoir.errors import DojoError as DojoError
from dojoir.errors import KernelError as KernelError
from dojoir.errors import ParseError as ParseError
from dojoir.errors import QueryError as QueryError
from dojoir.errors import RunError as RunError
from dojoir.errors import ToolchainError as ToolchainError
from dojoir.gradient import gradient as gradient
from dojoir.grammar import load as load
from dojoir.grammar import parse as parse
from dojoir.grammar import problems as problems
from dojoir.ir.comments import commented_text as commented_text
from dojoir.ir.nodes import Kernel as Kernel
from dojoir.ir.size_condition import SizeCondition as SizeCondition
from dojoir.ir.text import canonical_text as canonical_text
from dojoir.ir.text import to_text as to_text
from dojoir.meaning.interpreter import interpret as interpret
from dojoir.passes import COMBINATORS as COMBINATORS
from dojoir.passes import MOVES as MOVES
from dojoir.passes import Move as Move
from dojoir.passes import PASSES as PASSES
from dojoir.passes import Pass as Pass
from dojoir.passes import Trace as Trace
from dojoir.passes import Verdict as Verdict
from dojoir.passes import Version as Version
from dojoir.passes import Versions as Versions
from dojoir.passes import apply as apply
from dojoir.passes import candidates as candidates
from dojoir.passes import certify as certify
from dojoir.passes import check as check
from dojoir.passes import find as find
from dojoir.passes import load_passes as load_passes
from dojoir.passes import moves as moves
from dojoir.passes import named_pass as named_pass
from dojoir.passes import one as one
from dojoir.passes import parse_move as parse_move
from dojoir.passes import parse_pipeline as parse_pipeline
from dojoir.passes import suggest as suggest
from dojoir.proof.checker_mode import check_with as check_with
from dojoir.proof.verdict import IllegalMove as IllegalMove
from dojoir.proof.wellformed import prove as prove
from dojoir.query.conditions import Query as Query
from dojoir.query.search import Match as Match
from dojoir.runtime import Bottleneck as Bottleneck
from dojoir.runtime import Card as Card
from dojoir.runtime import Ceilings as Ceilings
from dojoir.runtime import Compiled as Compiled
from dojoir.runtime import Contestant as Contestant
from dojoir.runtime import Doctor as Doctor
from dojoir.runtime import Evaluation as Evaluation
from dojoir.runtime import Evaluator as Evaluator
from dojoir.runtime import ForTarget as ForTarget
from dojoir.runtime import Library as Library
from dojoir.runtime import Measurement as Measurement
from dojoir.runtime import PythonCode as PythonCode
from dojoir.runtime import Ratio as Ratio
from dojoir.runtime import Together as Together
from dojoir.runtime import bottleneck as bottleneck
from dojoir.runtime import ceilings as ceilings
from dojoir.runtime import compile as compile
from dojoir.runtime import doctor as doctor
from dojoir.runtime import emit as emit
from dojoir.runtime import measure as measure
from dojoir.runtime import measure_together as measure_together
from dojoir.runtime import processor as processor
from dojoir.runtime import profile as profile
from dojoir.runtime import ratio_of as ratio_of
from dojoir.runtime import thread_count as thread_count
from dojoir.runtime import verify as verify
from dojoir.runtime import write_library as write_library
from dojoir.schedules import Plan as Plan
from dojoir.schedules import optimize as optimize
from dojoir.schedules import plan as plan
from dojoir.schedules import versions as versions
from dojoir.search import Budget as Budget
from dojoir.search import Tuned as Tuned
from dojoir.search import draw as draw
from dojoir.search import estimate as estimate
from dojoir.search import features as features
from dojoir.search import tune as tune
from dojoir.support.files import write_file as write_file
from dojoir.support.memo import clear_caches as clear_caches
from dojoir.support.public import public as public
from dojoir.support.seconds import format_seconds as format_seconds
from dojoir.testing import ignored_inputs as ignored_inputs
from dojoir.testing import random_inputs as random_inputs
from dojoir.testing import repeats as repeats

PUBLIC: dict[str, str]
MOVED: dict[str, str]
MODULES: str
__version__: str
__all__ = [
    "ArgumentError",
    "Budget",
    "Compiled",
    "DojoError",
    "Evaluator",
    "IllegalMove",
    "Kernel",
    "KernelError",
    "MOVES",
    "Machine",
    "Move",
    "PASSES",
    "ParseError",
    "Pass",
    "QueryError",
    "RunError",
    "TARGETS",
    "ToolchainError",
    "Trace",
    "Verdict",
    "apply",
    "bottleneck",
    "build",
    "candidates",
    "certify",
    "chain",
    "check",
    "compile",
    "cost",
    "doctor",
    "emit",
    "find",
    "gradient",
    "instructions",
    "interpret",
    "kernel",
    "kernels",
    "load",
    "machine_for",
    "measure",
    "measure_together",
    "moves",
    "one",
    "optimize",
    "parse",
    "parse_move",
    "parse_pipeline",
    "plan",
    "profile",
    "prove",
    "rules",
    "schedules",
    "search",
    "suggest",
    "testing",
    "to_text",
    "torch",
    "tune",
    "verify",
    "write_library",
]

def __dir__() -> list[str]: ...
