"""A model's options and state as bytes, and back."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from streamnb.learners import codec
from streamnb.learners.kernels.answer import EVENTS, N_LOW, N
from streamnb.learners.kernels.types import Array
from streamnb.learners.options import READING, json_options, options_from_json
from streamnb.learners.tables import Names

if TYPE_CHECKING:
    from streamnb.learners.model import Model

M = TypeVar("M", bound="Model")


def to_bytes(model: "Model") -> bytes:
    """Return options and state as bytes, everything in sorted order."""
    names, arrays = [], [model.class_table[model.order][:, [EVENTS, N, N_LOW]]]
    for block in model.blocks:
        block_names, block_arrays = block.dump(model.order)
        names.append(codec.names_to_json(block_names))
        arrays += block_arrays
    header = {
        "model": type(model).__name__,
        "options": json_options(model.options),
        "classes": model.classes,
        "landmark": model.forgetting.landmark,
        "latest": model.forgetting.latest,
        "rounded": model.rounded,
        "blocks": names,
    }
    return codec.encode(header, arrays)


def from_bytes(kind: type[M], data: bytes) -> M:
    """Return the model that `to_bytes` was given."""
    header, arrays = codec.decode(data)
    if header["model"] != kind.__name__:
        raise ValueError(f"these bytes hold a {header['model']}, not a {kind.__name__}")
    model = kind(**options_from_json(header["options"]))
    load(model, header, arrays)
    return model


def restore(model: "Model", data: bytes) -> None:
    """Take over the state of a model of the same shape."""
    header, arrays = codec.decode(data)
    kind = type(model)
    if header["model"] != kind.__name__:
        raise ValueError(f"the state belongs to a {header['model']}, this is a {kind.__name__}")
    mine, found = model.shape(), kind(**options_from_json(header["options"])).shape()
    for name in mine:
        if mine[name] != found[name]:
            raise ValueError(f"the state was made with {name} {found[name]!r}, now it is {mine[name]!r}")
    load(model, header, arrays)


def shape(model: "Model") -> dict[str, Any]:
    """Return, as JSON values, the kind and the options that the state depends on."""
    given = json_options({name: value for name, value in model.options.items() if name not in READING})
    labels = list(model.declared)
    mapped = isinstance(model.options["priors"], Mapping)
    given["classes"] = None if mapped else labels
    given["half_life"] = model.half_life
    return {"kind": type(model).kind, **given, "priors": labels if mapped else None}


def load(model: "Model", header: Mapping[str, Any], arrays: list[Array]) -> None:
    """Replace a model's state by a decoded one."""
    if header["rounded"] and model.options.get("weighting") == "tfidf":
        raise ValueError("a model from scikit-learn cannot weigh by tfidf: how many events had a token is not known")
    version = model.version
    model.start()
    model.version = version + 1
    model.labels = Names()
    for label in header["classes"]:
        model.add_label(label)
    n_classes = len(model.labels)
    model.class_table[:n_classes, [EVENTS, N, N_LOW]] = arrays[0]
    model.forgetting.landmark, model.forgetting.latest = header["landmark"], header["latest"]
    model.rounded = header["rounded"]
    at = 1
    for block, names in zip(model.blocks, header["blocks"], strict=True):
        block.load(codec.names_from_json(names), arrays[at : at + block.n_arrays], n_classes)
        at += block.n_arrays
    model.sort_labels()
