"""``python -m kafka_remote_client``: the command ``kafka-remote``."""

from kafka_remote_client.cli.main import run

__all__: list[str] = []

if __name__ == "__main__":
    run()
