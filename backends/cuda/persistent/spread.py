"""spread: a chain spread over blocks as one launch: the kernel's name and the structures that it reads.

Assumes: the names of templates/spread.cu.j2.
Guarantees: size-dependent data is in tables (spread_table.py).
Does not: fill in tables.
"""

from __future__ import annotations

from typing import Final

from backends.cuda.kernels.kernel import structure

NAME: Final = "nl_spread_chain"
KEPT: Final = structure("from:u8 by_out,by_term:i8 outs,terms,at,pitch,bits,panel,divided,unused,unused_2,unused_3:i4")
PANEL: Final = structure("values:u8 by_sample:i8 terms,at,pitch,rows,first,number,unused,unused_2:i4")
STAGE: Final = structure(
    "moves,shape,outs,bits,panels,side,ways,tiles,across,part,line,chunk,chunks,meets,rows,reads:i4 "
    "products,depth,wide,terms,fold,columns,divided,unused:i4"
)
SPREAD: Final = structure(
    "samples,given:i8 members,matrices,stages,record,sums,values,records,end,many,times,line,unused:i4"
)
"""nl_kept, nl_panel, nl_spread_stage and nl_spread_of of templates/spread.cu.j2."""
SPARE: Final = 4
"""Bytes of a thread for what is only prefetched."""
COUNTERS: Final = 32
"""Words between the counters of two groups."""
