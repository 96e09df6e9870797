"""rnn: a chain as one launch: the kernel's name, the structures that it reads, and its text.

Assumes: a merged program.
Guarantees: the text has the shapes of the stages (rnn_plan.py) of all chains of a program, each once; size-dependent
data is in tables (rnn_table.py).
Does not: fill in tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import compiler.ir.level2.program as l2
from backends.cuda.kernels.kernel import structure
from backends.cuda.persistent import spread
from backends.cuda.persistent.rnn_plan import Shapes
from compiler.strategies import clustered_rnn, spread_rnn

NAME: Final = "nl_chained"
AHEAD: Final = 32
"""Threads of a block that fetch what the next stages need, beside BLOCK that sum."""
SPARE: Final = 16
"""Words of each of them, for what is only prefetched."""
TOGETHER: Final = 4
"""Products that are summed side by side, at most."""
FOUR: Final = 4
"""Threads that sum the same outputs."""
SLOTS: Final = 16
"""Places for values that products multiply, at most."""
RECORDS: Final = 3
"""Stages that are on chip at a time."""
TELLS: Final = 16
"""Bytes of the barriers of a block of a cluster."""
EXPECTED: Final = 4096
"""Bytes of an array that a link reads of a sample, up to which they are prefetched while the stage before runs."""
MOVE: Final = 16
"""Bits of a move (what a word of a record is further on in each turn) that say which word it is."""
MATRIX: Final = structure("from:u8 by_row:i8 rows,columns,at,pitch:i4 by_block:i8 rows_each,columns_each:i4")
STAGE: Final = structure("moves,shape,outs,bits,split,beside,products,fresh,mine,rows,reads,fed:i4")
FACTOR: Final = structure("values:u8 by_sample:i8 at,by_out,by_term,slot,fresh,terms,pitch,unused:i4")
READ: Final = structure("from:u8 bytes:i8")
FEED: Final = structure("slot,pitch:i4")
CHAIN: Final = structure(
    "samples:i8 matrices,stages,record,values,sums,turn,records,mine,end,many,times,line,part,unused:i4"
)
"""nl_matrix, nl_stage, nl_factor, nl_link_read, nl_feed_to and nl_chain of templates/chain.cu.j2."""


def name_of(cluster: int) -> str:
    """The kernel of chains of so many blocks with the same samples."""
    return NAME if cluster == 1 else f"{NAME}_{cluster}"


def chained_templates(program: l2.Merged) -> tuple[int, ...]:
    """The templates that chains run, ascending."""
    return tuple(sorted({x.template for p in program.phases for c in p.chains for x in p.launches[c.first : c.last]}))


def chain_names(program: l2.Merged, shapes: Shapes, there: bool) -> Mapping[str, Any]:
    """Arguments of the skeleton, for the chains `there`."""
    chains = [c for p in program.phases for c in p.chains] if there else []
    return {
        "chained": any(c.spread == 1 and c.cluster == 1 for c in chains),
        "clusters": sorted({c.cluster for c in chains if c.cluster > 1}),
        "spread": any(c.spread > 1 for c in chains),
        "spread_name": spread.NAME,
        "depth": spread_rnn.DEPTH,
        "eight": spread_rnn.EIGHT,
        "passes": max((c.passes for c in chains if c.spread > 1), default=0),
        "step": spread_rnn.STEP,
        "down": spread_rnn.DOWN,
        "near": spread.SPARE,
        "shapes": range(len(shapes.number)),
        "chain_name": NAME,
        "tile": clustered_rnn.TILE,
        "mine": clustered_rnn.MINE,
        "ahead": AHEAD,
        "move": MOVE,
        "records": RECORDS,
        "spare": SPARE,
    }
