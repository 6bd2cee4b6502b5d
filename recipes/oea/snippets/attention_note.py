_oea_note.leave(self.layer_id, forward_batch)
