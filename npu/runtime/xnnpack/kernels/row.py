"""The fields of a job row: one compiled operation as 24 int64 values, addresses absolute, sizes in the units named here."""

KIND = 0
TABLE = 1  # address of the indirection table: `SEGMENTS` input addresses for every output pixel
SEGMENTS = 2  # stretches of input (kernel taps or rows) per output pixel
LENGTH = 3  # elements of a stretch: floats, or groups of four bytes
WEIGHTS = 4  # address of the packed weights
WEIGHT_STEP = 5  # bytes from the weights of 16 channels to those of the next 16
STAGE = 6  # address of biases and factors, one block per 16 channels
OUT = 7  # address of the output
OUT_STEP = 8  # bytes from one output pixel to the next
PIXELS = 9
GROUPS = 10  # blocks of 16 output channels
TAIL = 11  # channels in the last block, 1 to 16
SIGN = 12  # 0x80808080 for int8 inputs, 0 for uint8; CENTRED rows: four times the zero point of the weights
ZERO_POINT = 13
LOW = 14  # clamp, as an integer or as the bits of a float32
HIGH = 15
IN = 16  # address of the input of a copy or look-up; of what is added to the sums of an 8-bit product, per pixel
IN2 = 17
IN_STEP = 18  # bytes
ROWS = 19
ROW_BYTES = 20
WIDTH = 21  # output pixels of a row
CHUNK = 22  # rows that a thread takes at once
IN2_STEP = 1  # of a second operand, or of a second axis; such rows have no table
SINGLE = 2  # 1 or 2 if the first or the second operand of a row is one element, or is the exact one of 8-bit sums, else 0
CENTRED = 23  # whether the weights of an 8-bit depthwise convolution have a zero point
FIELDS = 24

GEMM_FLOAT, GEMM_BYTE, GEMM_SUM, DEPTHWISE_FLOAT, DEPTHWISE_BYTE = range(5)
COPY_ROWS, LOOK_UP_PAIRS, RESIZE, ROUND_SUMS, ADD_BYTES, SUBTRACT_BYTES, SUM_PIXELS = range(5, 12)
FLOAT_ADD, FLOAT_SUBTRACT, FLOAT_MULTIPLY, FLOAT_DIVIDE, FLOAT_SQUARED_DIFFERENCE, FLOAT_CLAMP, FLOAT_TANH = range(12, 19)
SOFTMAX_ROWS, MOVE, FLIP_ROWS = range(19, 22)
FLOAT_STAGE_BYTES = 64  # bias
BYTE_STAGE_BYTES = 256  # bias, left shift, multiplier, right shift
