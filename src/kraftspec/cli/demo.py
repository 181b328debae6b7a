"""stub"""

import click


@click.command()
def demo() -> None:
    """stub"""


@click.group()
def conform() -> None:
    """stub"""
