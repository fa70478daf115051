from .disk import DiskReplay as DiskReplay
from .host import HostReplay as HostReplay
from .host_prioritized import HostPrioritizedReplay as HostPrioritizedReplay
from .host_sequences import HostSequenceReplay as HostSequenceReplay
from .importance import importance_weights as importance_weights
from .prioritized import PrioritizedReplay as PrioritizedReplay
from .ring import Replay as Replay
from .sample import Sample as Sample
from .sequences import SequenceReplay as SequenceReplay, Sequences as Sequences
