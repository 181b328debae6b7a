"""Types of the compiled half of batch_writer.py, which says what its names mean."""

from kraftspec.fastpath.batch_writer import PureBatchBuilder, pure_encode_batch

encode_batch = pure_encode_batch

class BatchBuilder(PureBatchBuilder): ...
