"""Ways to make objects of an HDF5 file unreadable."""

import h5py


def damaged_header(path, name):
    """The object header begins with invalid bytes."""
    with h5py.File(path, "r") as file:
        address = h5py.h5o.get_info(file[name].id).addr
    with open(path, "r+b") as file:
        file.seek(address)
        file.write(b"\xff" * 16)


def replace(path, name, link):
    with h5py.File(path, "r+") as file:
        if name in file:
            del file[name]
        file[name] = link


def dangling_link(path, name):
    replace(path, name, h5py.SoftLink("/there/is/nothing"))


def missing_file(path, name):
    replace(path, name, h5py.ExternalLink("moved.h5", "/" + name))


def wrong_kind(path, name):
    with h5py.File(path, "r+") as file:
        if name in file:
            del file[name]
        file.create_group(name)


def claimed_length(path, text, length):
    """The text attribute or element `text` of variable length claims another length."""
    content = bytearray(path.read_bytes())
    old = len(text).to_bytes(4, "little")
    places = [at for at in range(len(content) - 16) if content[at:at + 4] == old and
              0 < int.from_bytes(content[at + 4:at + 12], "little") < len(content) and
              0 < int.from_bytes(content[at + 12:at + 16], "little") < 16]
    assert len(places) == 1, places
    content[places[0]:places[0] + 4] = length.to_bytes(4, "little")
    path.write_bytes(content)


# Ways to damage an object, and the text of the message about it.
KINDS = {
    damaged_header: "cannot be opened",
    dangling_link: "is a link that leads nowhere",
    missing_file: "is an external link to moved.h5",
    wrong_kind: "is a group, expected a dataset",
}
