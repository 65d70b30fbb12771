"""The one array in which the event engine finds what was prepared and leaves what it finds out: where everything is in it.

64-bit words, some read as integers and some as floats: a head, the two ports, then a row per operation, per load and per
block. One array because every further argument of a compiled function takes a tenth of a microsecond, rows because what is
used together should lie together.
"""

from __future__ import annotations

# Integers of the head: how many operations, loads and blocks there are, and the word at which the first row of each lies.
H_OPERATIONS, H_LOADS, H_BLOCKS, H_AT_OPERATIONS, H_AT_LOADS, H_AT_BLOCKS, H_COMMAND_PORT, H_FIRST_TRANSFER = range(8)
# Floats of the head: cycles to start an operation and a transfer, bytes of a beat.
H_START_CYCLES, H_DMA_SETUP, H_BEAT = range(8, 11)
# Floats that the engine fills: of the transfer under way the bytes that are left (0: none is under way), when what has been
# moved has arrived, and the bytes of a chunk with its beats and the cycles that it takes of its source and of its target.
X_LEFT, X_ARRIVED, X_CHUNK, X_BEATS, X_READ_CYCLES, X_WRITE_CYCLES = range(11, 17)
HEAD_WORDS = 17

# A port, floats: latencies; cycles that one burst takes of the slots together (held cycles / slots); cycles that one slot is
# held, which is how far all of them can be taken ahead; cycles per beat, window length (0: none), cycles of the window in which
# addresses pass, beats admitted per window (0: no cap), bytes of a burst.
(
    P_READ_LATENCY,
    P_WRITE_LATENCY,
    P_READ_BURST_CYCLES,
    P_WRITE_BURST_CYCLES,
    P_READ_HELD,
    P_WRITE_HELD,
    P_BEAT_CYCLES,
    P_WINDOW,
    P_OPEN,
    P_CAP,
    P_BURST_BYTES,
) = range(11)
PORT_SCALARS = 11
# And its state: when its read and write channels are free; of the current window its number, the beats admitted in it, its
# start and the end of its open part; the cap. What is not limited is FAR.
S_READ_FREE, S_WRITE_FREE, S_WINDOW, S_USED, S_START, S_CLOSES, S_CAP = range(11, 18)
PORT_WORDS = 18
HELD_OF = P_READ_HELD - S_READ_FREE
"""From a channel to the cycles that one of its slots is held."""

# An operation, integers: its kind; the kernel and the transfer that must have finished before the parser goes on (NOTHING:
# none); its ports; of a transfer the bytes, the ports and the transfer that follows it (the number of operations: none).
(
    O_KIND,
    O_AFTER_KERNEL,
    O_AFTER_TRANSFER,
    O_IFM_PORT,
    O_IFM2_PORT,
    O_OFM_PORT,
    O_WEIGHT_PORT,
    O_BYTES,
    O_FROM,
    O_TO,
    O_NEXT_TRANSFER,
) = range(11)
# Floats: what its command words ask of their port, and the cycles that the parser needs for them.
O_COMMAND_BEATS, O_COMMAND_PORT_CYCLES, O_COMMAND_CYCLES = range(11, 14)
# Floats that the engine fills: moments, then durations.
(
    R_ISSUED,
    R_START,
    R_END,
    R_MAC_WEIGHTS,
    R_MAC_IFM,
    R_MAC_ACCUMULATOR,
    R_OUTPUT_MEMORY,
    R_OUTPUT_INPUT,
    R_DECODER_MEMORY,
    R_DECODER_MAC,
    R_IFM_ACTIVE,
    R_DMA_ACTIVE,
    R_BLOCKDEP,
    R_WAIT,
    R_MAC_IDLE,
    R_OUTPUT_IDLE,
    R_DECODER_IDLE,
) = range(14, 31)
FIRST_RESULT = 14
RESULT_COLUMNS = 17
MOMENTS = 3
# And when its command words have arrived at the parser.
M_COMMANDS = 31
OPERATION_WORDS = 32

# A load, integers: its operation; the blocks whose output and whose end it waits for (accumulators and BLOCKDEP); the load
# that the MAC array must have started before the decoder has room. NOTHING: it does not wait.
K_OPERATION, K_OUTPUT, K_END, K_ROOM = range(4)
# Floats: beats of its reads and its write on their ports and the cycles that they take of them (`ports.turn`), the least time
# that its weights are on their way beyond one latency, and the cycles of decoder, MAC array and output unit (the last and the
# write: of the block it ends).
(
    C_IFM_BEATS,
    C_IFM_CYCLES,
    C_IFM2_BEATS,
    C_IFM2_CYCLES,
    C_STREAM_BEATS,
    C_STREAM_CYCLES,
    C_STREAM_DELAY,
    C_DECODE,
    C_MAC,
    C_OUTPUT,
    C_OFM_BEATS,
    C_OFM_CYCLES,
) = range(4, 16)
# Floats that the engine fills: when its input and the first and the last of its weights are there, when the MAC array works.
M_FETCHED, M_STREAM_START, M_STREAM_END, M_MAC_START, M_MAC_END = range(16, 21)
LOAD_WORDS = 21
NOTHING = -1

# A block, integers: its last load and its operation (behind the last block: the number of loads, and NOTHING).
B_LOAD, B_OPERATION = range(2)
# Floats that the engine fills: when its data have been written, and when the response has come.
B_DATA, B_RESPONSE = range(2, 4)
BLOCK_WORDS = 4

# Columns of the times of a load.
T_IFM_START, T_IFM_END, T_STREAM_START, T_STREAM_END, T_MAC_START, T_MAC_END, T_OUTPUT_START, T_OUTPUT_END = range(8)
TIME_COLUMNS = 8

FAR = 1e18
"""Time of what is not yet known."""
