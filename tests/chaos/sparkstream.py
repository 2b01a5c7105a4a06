"""A Spark driver that reads a topic as a stream, for a test that kills it: ``python -m tests.chaos.sparkstream BOOTSTRAP TOPIC FOLDER``.

Every micro-batch becomes one file that is there as a whole or not at all, under the number of the batch. A batch that is done
again after a crash takes the place of what it did before, so the files hold each record once if the source gives each batch the
same records again. A query that fails is started again, as whoever runs one would do.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

LIMIT = 400
"""Records of one micro-batch."""


def main(bootstrap: str, topic: str, folder: Path) -> None:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    spark = (
        SparkSession.builder.master("local[2,8]")  # a task may fail, as on a real cluster
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "512m")
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )
    reader = spark.readStream.format("ottla").option("kafka.bootstrap.servers", bootstrap)
    frame = reader.options(subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=str(LIMIT)).load()

    def keep(batch: DataFrame, number: int) -> None:
        rows = [[row["partition"], row["offset"], int(row["value"])] for row in batch.collect()]
        unfinished = folder / f"{number}.unfinished"
        unfinished.write_text(json.dumps(rows))
        unfinished.rename(folder / f"{number}.json")

    while True:
        writer = frame.writeStream.foreachBatch(keep).option("checkpointLocation", str(folder / "checkpoint"))
        try:
            writer.trigger(processingTime="100 milliseconds").start().awaitTermination()
        except StreamingQueryException as error:
            print(error, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
